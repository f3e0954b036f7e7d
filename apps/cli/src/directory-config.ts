// The two files of a working directory: `.plinth/link.json` with its own settings, `plinth.json` with shared environments.
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Failure } from './failure.ts'

export interface Link {
  url: string | null
  project_id: string | null
}

export interface PlatformEnvironment {
  url: string
  allow_local_writes: boolean
}

export const linkPath = (cwd: string): string => join(cwd, '.plinth', 'link.json')
export const topologyPath = (cwd: string): string => join(cwd, 'plinth.json')

export function readLink(cwd: string): Link {
  const file = readJson(linkPath(cwd)) ?? {}
  return {
    url: textField(file, 'url', linkPath(cwd)),
    project_id: textField(file, 'project_id', linkPath(cwd)),
  }
}

/** Changes the given fields and keeps the others. The rename is atomic, so readers never see an incomplete file. */
export function writeLink(cwd: string, change: Partial<Link>): Link {
  const path = linkPath(cwd)
  const next = { ...readJson(path), ...change }
  mkdirSync(dirname(path), { recursive: true })
  const temporary = `${path}.${randomUUID()}`
  writeFileSync(temporary, `${JSON.stringify(next, null, 2)}\n`)
  renameSync(temporary, path)
  return readLink(cwd)
}

export function readTopology(cwd: string): Map<string, PlatformEnvironment> {
  const path = topologyPath(cwd)
  const file = readJson(path)
  const environments = file?.['environments'] ?? {}
  if (!isRecord(environments)) throw invalidFile(path, '"environments" must be an object')
  const known = Object.entries(environments).map(([name, each]): [string, PlatformEnvironment] => {
    const url = isRecord(each) ? textField(each, 'url', path) : null
    if (!isRecord(each) || url === null) throw invalidFile(path, `environment "${name}" needs a "url"`)
    return [name, { url, allow_local_writes: each['allow_local_writes'] === true }]
  })
  return new Map(known)
}

/** Undefined when there is no such file. */
export function readJson(path: string): Record<string, unknown> | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Failure('file_unreadable', `${path} cannot be read: ${(cause as Error).message}.`, null, cause)
  }
  try {
    const parsed: unknown = JSON.parse(text)
    if (isRecord(parsed)) return parsed
  } catch (cause) {
    throw invalidFile(path, (cause as Error).message, cause)
  }
  throw invalidFile(path, 'it must contain an object')
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function textField(file: Record<string, unknown>, name: string, path: string): string | null {
  const value = file[name] ?? null
  if (value === null || typeof value === 'string') return value || null
  throw invalidFile(path, `"${name}" must be text`)
}

function invalidFile(path: string, why: string, cause?: unknown): Failure {
  return new Failure('file_invalid', `${path} is invalid: ${why}.`, `Correct ${path}.`, cause)
}
