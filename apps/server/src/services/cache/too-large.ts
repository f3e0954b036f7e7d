// Size limits of cache values and answers.
import { Refusal } from '#src/kernel/errors.ts'

/** Maximum characters of values in one answer, which is in memory until the client has read it. */
const maxAnswer = 16 * 1024 * 1024

export function checkAnswer(length: number): void {
  if (length > maxAnswer)
    throw new Refusal(
      'cache_value_too_large',
      `The values of these keys are more than ${maxAnswer} characters together; ask for fewer keys`,
    )
}

export const tooLarge = (bytes: number, maxBytes: number) =>
  new Refusal(
    'cache_value_too_large',
    `This needs ${bytes} bytes, and the cache of the project holds ${maxBytes}; an administrator can raise its quota max_cache_bytes`,
  )
