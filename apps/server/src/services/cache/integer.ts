// 64-bit integers as Redis reads and writes them: no sign but a minus, no spaces, no leading zeros.
import { Refusal } from '#src/kernel/errors.ts'

const form = /^(?:0|-?[1-9][0-9]{0,18})$/
const least = -(2n ** 63n)
const most = 2n ** 63n - 1n

/** Throws if the text is not such an integer, or if the sum overflows. */
export function sumOf(text: string, by: bigint): bigint {
  if (!form.test(text)) throw notAnInteger()
  const value = BigInt(text)
  if (value < least || value > most) throw notAnInteger()
  const sum = value + by
  if (sum < least || sum > most) throw overflow()
  return sum
}

export const notAnInteger = () =>
  new Refusal('not_an_integer', 'The value of this key is not a 64-bit integer; nothing was changed')

export const overflow = () =>
  new Refusal('not_an_integer', 'The result would leave the range of 64-bit integers; nothing was changed')
