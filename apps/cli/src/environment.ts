import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { Failure } from './failure.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** The real environment over the `.env` of the current directory; an empty value counts as not set. */
export function readEnvironment(cwd: string): Environment {
  // biome-ignore lint/style/noProcessEnv: the one place of the command line that reads the environment
  const real = process.env
  const merged: Record<string, string | undefined> = { ...dotEnv(join(cwd, '.env')) }
  for (const [name, value] of Object.entries(real)) if (value !== undefined) merged[name] = value
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
