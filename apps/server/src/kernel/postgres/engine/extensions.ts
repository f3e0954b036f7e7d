// Extensions that the packaged binaries do not include, such as pgvector, from a directory of the operator. Postgres 18
// can load extensions from further directories, so nothing is written into node_modules.
import { accessSync, constants, existsSync } from 'node:fs'
import { join } from 'node:path'
import { canReach } from '#src/kernel/child-processes/os-user.ts'
import type { OsUser } from '#src/kernel/child-processes/process.ts'

import { realPath } from './place.ts'

/** The settings that add the directory to Postgres. Throws an error that says why the directory cannot be used. */
export function extensionSettings(directory: string | undefined, user?: OsUser): Record<string, string> {
  if (directory === undefined) return {}
  const place = realPath(directory)
  if (place.includes(':')) throw unusable(`it cannot be ${place}: Postgres separates directories by colons`)
  const controls = join(place, 'extension')
  const libraries = join(place, 'lib')
  if (!existsSync(controls))
    throw unusable(
      `${controls} is missing: an extension directory holds control and SQL files in extension/, libraries in lib/`,
    )
  for (const part of [controls, libraries]) if (existsSync(part)) requireReadable(part, user)
  return { extension_control_path: `$system:${place}`, dynamic_library_path: `$libdir:${libraries}` }
}

function requireReadable(path: string, user: OsUser | undefined): void {
  if (user ? canReach(user, path, 0o5) : isReadable(path)) return
  throw unusable(
    user
      ? `the database runs as ${user.name}, who cannot read ${path}: open it, or move it elsewhere`
      : `${path} cannot be read`,
  )
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The message begins with the variable that the operator has to change. */
const unusable = (why: string) => new Error(`PLATFORM_EXTENSION_DIR: ${why}`)
