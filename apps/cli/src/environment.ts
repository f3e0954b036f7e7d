import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { Failure } from './failure.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** The environment of the process over the `.env` of the working directory; an empty value counts as not set. */
export function readEnvironment(env: Environment, cwd: string): Environment {
  const merged: Record<string, string | undefined> = { ...dotEnv(join(cwd, '.env')) }
  for (const [name, value] of Object.entries(env)) if (value !== undefined) merged[name] = value
  return merged
}

export function setting(environment: Environment, name: string): string | undefined {
  return environment[name]?.trim() || undefined
}

function dotEnv(path: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path, 'utf8'))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw new Failure('file_unreadable', `${path} cannot be read: ${(cause as Error).message}.`, null, cause)
  }
}
