// The functions of a directory: each has a folder in `functions`, or in `supabase/functions`.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Failure } from '../failure.ts'

/** The same as in the contract, which is not loaded because of TypeBox. */
export const namePattern = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/

/** Files that the platform takes for the entrypoint, in this order. */
export const entrypoints: readonly string[] = ['index.ts', 'index.js', 'index.mjs', 'index.tsx', 'index.jsx']

export function checkedName(name: string): string {
  if (namePattern.test(name)) return name
  throw new Failure(
    'usage_invalid_value',
    `"${name}" is not a name of a function.`,
    'Use letters, digits, underscores and hyphens, at most 64 characters, and no hyphen at the start.',
  )
}

/** Relative to the working directory. */
export function functionsFolder(cwd: string): string {
  const [own, ofSupabase] = ['functions', join('supabase', 'functions')] as const
  return !existsSync(join(cwd, own)) && existsSync(join(cwd, ofSupabase)) ? ofSupabase : own
}

/** The names of the functions in a folder: of its folders that have an entrypoint. */
export function functionsIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .map(entry => entry.name)
    .filter(name => namePattern.test(name) && entrypointOf(folder, name) !== undefined)
    .sort()
}

/** The path of the file with the handler. */
export function entrypointOf(folder: string, name: string): string | undefined {
  return entrypoints.map(each => join(folder, name, each)).find(path => existsSync(path))
}
