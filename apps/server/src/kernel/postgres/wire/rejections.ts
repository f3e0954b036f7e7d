// Errors that the connection itself reports, as DatabaseError like those of the server.
import { DatabaseError } from '../database-error.ts'
import { maxBodyBytes } from './frames.ts'

export const maxParameters = 65_535
export const maxAnswerBytes = maxBodyBytes

const programLimitExceeded = '54000'
const notSupported = '0A000'

export const tooManyParameters = () =>
  new DatabaseError({ code: programLimitExceeded, message: `more than ${maxParameters} parameters` })

export const answerTooLarge = () =>
  new DatabaseError({
    code: programLimitExceeded,
    message: `the answer is larger than ${maxAnswerBytes} bytes`,
  })

export const copyNotPossible = () =>
  new DatabaseError({ code: notSupported, message: 'COPY FROM STDIN is not possible here' })
