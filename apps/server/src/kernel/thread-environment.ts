// The environment of threads. Without the compile cache of this process, each thread would load and compile Node's
// transpiler of TypeScript, which takes a tenth of a second.
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'

export function threadEnvironment(): Record<string, string> {
  const ofThisVersion = getCompileCacheDir()
  return ofThisVersion === undefined ? {} : { NODE_COMPILE_CACHE: dirname(ofThisVersion) }
}
