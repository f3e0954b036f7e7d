// UUIDs of version 7: the first 48 bits are milliseconds, so ids sort by the time of their creation. Ids that one process
// creates in the same millisecond are ordered, too.
import { randomFillSync } from 'node:crypto'

const randomBytes = new Uint8Array(8 * 512)
let used = randomBytes.length
let lastMs = 0
let counter = 0
/** Twelve bits follow the time. */
const maxCounter = 0xfff

export function orderedUuid(): string {
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    counter = 0
  } else if (++counter > maxCounter) {
    // The clock was set back, or there were more ids than a millisecond has room for.
    lastMs++
    counter = 0
  }
  if (used === randomBytes.length) {
    randomFillSync(randomBytes)
    used = 0
  }
  const time = lastMs.toString(16).padStart(12, '0')
  const order = counter.toString(16).padStart(3, '0')
  let random = ''
  for (let index = 0; index < 8; index++) {
    const byte = randomBytes[used++]!
    random += ((index === 0 ? (byte & 0x3f) | 0x80 : byte) + 0x100).toString(16).slice(1)
  }
  return `${time.slice(0, 8)}-${time.slice(8)}-7${order}-${random.slice(0, 4)}-${random.slice(4)}`
}

/** The lowest id that is created at the given time, to compare ids with a time. */
export function lowestUuidAt(ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7000-8000-000000000000`
}
