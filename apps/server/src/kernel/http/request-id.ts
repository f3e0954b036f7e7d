import { randomBytes } from 'node:crypto'

// Unique without asking for random bytes each time: this process's own beginning, then a count.
const beginning = randomBytes(9).toString('base64url')
let count = 0

export const newRequestId = (): string => `${beginning}-${(++count).toString(36)}`
