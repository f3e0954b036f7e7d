// The requests of a run. Each depends only on the seed and its number, so that it can be generated again.
import { anyAttack } from './attacks.ts'
import { broken } from './breaker.ts'
import { anyCall } from './calls.ts'
import { anyChange, type Change, writeChange } from './changes.ts'
import { anyRead } from './generator.ts'
import type { Read } from './query.ts'
import { createRandom } from './random.ts'
import type { Data } from './rows.ts'
import { wildRead } from './wild-reads.ts'
import { type Wire, writeRead } from './wire.ts'
import { anyWrite } from './writes.ts'

/** An unmodified read or change can be compared with the oracle. */
export interface Case {
  wire: Wire
  read?: Read
  change?: Change
  /** Two answers can differ only because of data hidden from the caller. */
  isAttack?: true
}

export function makeCase(seed: string, index: number, data: Data): Case {
  const random = createRandom(`${seed}:${index}`)
  const from = { random, data }
  const kind = random.int(1, 100)
  if (kind <= 42) return readCase(anyRead(from))
  if (kind <= 49) return changeCase(anyChange(from))
  if (kind <= 62) return { wire: anyAttack(from), isAttack: true }
  if (kind <= 70) return { wire: wildRead(from) }
  if (kind <= 77) return { wire: anyCall(from) }
  if (kind <= 84) return { wire: anyWrite(from) }
  const whole = random.pick([
    () => writeRead(anyRead(from)),
    () => wildRead(from),
    () => anyCall(from),
    () => anyWrite(from),
  ])()
  // exec_sql would run the garbage as service_role.
  return { wire: whole.path === 'rpc/exec_sql' ? whole : broken(random, whole) }
}

export const readCase = (read: Read): Case => ({ read, wire: writeRead(read) })
export const changeCase = (change: Change): Case => ({ change, wire: writeChange(change) })
