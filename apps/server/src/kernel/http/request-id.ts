import { randomBytes } from 'node:crypto'

// A random prefix per process and a counter, which is faster than random bytes per request. Hexadecimal, because base64url
// can begin with `-`, which a command line reads as an option and a spreadsheet as a formula.
const prefix = randomBytes(8).toString('hex')
let count = 0

export const newRequestId = (): string => `${prefix}-${(++count).toString(36)}`
