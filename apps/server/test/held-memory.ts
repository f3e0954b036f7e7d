// The memory that this process holds. Without a collection, garbage of earlier work would count, too.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// `gc` exists only with this flag, and only in contexts that are created after it is set.
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

export function heldMemory(): NodeJS.MemoryUsage {
  collect()
  return process.memoryUsage()
}
