// Extensions that the binaries do not bring, such as pgvector, from a directory of the operator's own: Postgres
// 18 looks there too, so nothing is written into node_modules.
import { accessSync, constants, existsSync } from 'node:fs'
import { join } from 'node:path'
import { canReach, type OsUser } from './os-user.ts'
import { realPath } from './place.ts'

/** Where Postgres looks for control files and libraries besides its own, or a sentence why it could not. */
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

/** By the name of the setting: whoever reads it wants to know what to change. */
const unusable = (why: string) => new Error(`PLATFORM_EXTENSION_DIR: ${why}`)
