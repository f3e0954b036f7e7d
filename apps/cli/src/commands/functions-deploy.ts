import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ReplyError } from '@plinth/contract/client.ts'
import type { EdgeFunction } from '@plinth/contract/functions.ts'
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { checkedName, functionsFolder } from '../functions/folder.ts'
import { readSource, type Source } from '../functions/source.ts'
import type { Platform } from '../platform.ts'
import { bytes, clean, fields } from '../print.ts'
import { openProject } from '../project.ts'

type Deployment = Source['body'] & { verify_jwt?: boolean }

export async function deploy(context: Context): Promise<Answer> {
  const { cwd, given, screen } = context
  const name = checkedName(given.operands['name']!)
  const verifyJwt = verifyJwtIn(given)
  const path = given.values['path'] ?? defaultPath(cwd, name)
  const source = await readSource({ cwd, path, entrypoint: given.values['entrypoint'] })
  const { platform, id } = await openProject(context)
  const files = source.files === 1 ? '1 file' : `${source.files} files`
  screen.progress(clean(`Deploying ${name} from ${path}: ${files}, ${bytes(source.bytes)}`))
  const body = { ...source.body, ...(verifyJwt !== undefined && { verify_jwt: verifyJwt }) }
  const { api_url } = await platform.projects.read({ params: { id } })
  const deployed = await save(platform, id, name, body).catch(error => {
    throw explained(error, name, path)
  })
  const url = `${api_url}/functions/v1/${name}`
  return {
    data: { ...deployed, url },
    text: paint =>
      [
        `Deployed ${paint.bold(name)}`,
        '',
        fields(paint, [
          ['version', deployed.version],
          ['verify JWT', deployed.verify_jwt ? 'yes' : 'no'],
          ['URL', url],
        ]),
      ].join('\n'),
    hints: [
      deployed.verify_jwt
        ? `Call it: plinth functions invoke ${name}`
        : `Call it: plinth functions invoke ${name}, or without a credential: curl ${url}`,
    ],
  }
}

function verifyJwtIn({ switches }: Given): boolean | undefined {
  const [on, off] = [switches.has('verify-jwt'), switches.has('no-verify-jwt')]
  if (on && off)
    throw new Failure(
      'usage_invalid_value',
      '--verify-jwt and --no-verify-jwt exclude each other.',
      'Give one of them, or neither to keep the setting.',
    )
  return on || off ? on : undefined
}

function defaultPath(cwd: string, name: string): string {
  const path = join(functionsFolder(cwd), name)
  if (existsSync(join(cwd, path))) return path
  throw new Failure(
    'folder_missing',
    `There is no folder ${path}.`,
    `plinth functions new ${name} creates it; --path names another folder or a file.`,
  )
}

/** Updates the function, or creates it. Reading it first would transfer all its files. */
async function save(platform: Platform, id: string, name: string, body: Deployment): Promise<EdgeFunction> {
  try {
    return await platform.functions.update({ params: { id, name }, body })
  } catch (error) {
    if (!(error instanceof ReplyError) || error.code !== 'function_not_found') throw error
    return platform.functions.create({ params: { id }, body: { name, ...body } })
  }
}

/** Functions of Supabase often import from `functions/_shared`. */
function explained(error: unknown, name: string, path: string): unknown {
  const isOutside =
    error instanceof ReplyError &&
    error.code === 'function_code_invalid' &&
    error.message.includes('is outside of the folder')
  if (!isOutside) return error
  return new Failure(
    error.code,
    `${error.message.replace(/\.$/, '')}.`,
    `Deploy the folder that contains both: plinth functions deploy ${name} --path ${dirname(path)} --entrypoint ${name}/index.ts`,
    error,
  )
}
