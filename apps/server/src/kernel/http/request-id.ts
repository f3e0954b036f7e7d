import { randomBytes } from 'node:crypto'

// Unique without asking for random bytes each time: this process's own beginning, then a count. Hexadecimal, because
// base64url can begin with `-`, which a command line reads as an option and a spreadsheet as a formula.
const beginning = randomBytes(8).toString('hex')
let count = 0

export const newRequestId = (): string => `${beginning}-${(++count).toString(36)}`
