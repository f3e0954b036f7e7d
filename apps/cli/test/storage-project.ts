// A working directory with its own project, and the storage commands in it.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'

/** A directory with its own project. */
export async function storageProject(platform: TestPlatform, files: Record<string, string> = {}) {
  const { id, service_role_key } = await platform.createProject()
  const cwd = temporaryDirectory(files)
  const storage = (args: string[], options: RunOptions = {}) =>
    run(['storage', ...args], {
      cwd,
      ...options,
      env: {
        PLATFORM_URL: platform.url,
        PLATFORM_TOKEN: platform.adminToken,
        PLATFORM_PROJECT: id,
        ...options.env,
      },
    })
  /** Reads it over HTTP, without the command line. */
  const served = async (path: string) => {
    const reply = await fetch(`${platform.url}/v1/storage/${id}/object/${path}`, {
      headers: { apikey: service_role_key },
    })
    return {
      status: reply.status,
      type: reply.headers.get('content-type'),
      cache: reply.headers.get('cache-control'),
      text: await reply.text(),
    }
  }
  const keys = async (bucket: string) =>
    (await storage(['ls', `ss:///${bucket}`, '-r'])).json.data.entries.map((each: any) =>
      each.address.replace(`ss:///${bucket}/`, ''),
    )
  const read = (path: string) => readFileSync(join(cwd, path), 'utf8')
  return { id, cwd, storage, served, keys, read }
}

/** Every file below a directory. */
export const below = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name).slice(directory.length + 1))
    .sort()

export const codes = (ran: { code: number | null; json: any }) => [ran.code, ran.json?.error?.code]
