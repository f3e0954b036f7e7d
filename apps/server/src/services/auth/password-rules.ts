import type { AuthSettings } from '@plinth/contract/auth-settings.ts'
import { maxPasswordBytes } from '#src/kernel/crypto/password.ts'
import { Refusal } from '#src/kernel/errors.ts'

interface Weakness {
  message: string
  reasons: string[]
}

type Rules = Pick<AuthSettings, 'min_password_length'>

export function weaknessOf(password: string, { min_password_length }: Rules): Weakness | undefined {
  if ([...password].length >= min_password_length) return
  return {
    message: `Password should be at least ${min_password_length} characters.`,
    reasons: ['length'],
  }
}

/** Checks a password before it is stored. */
export function checkNewPassword(password: string, rules: Rules): void {
  if (Buffer.byteLength(password) > maxPasswordBytes)
    throw new Refusal('validation_failed', `Password cannot be longer than ${maxPasswordBytes} bytes`)
  if (password.includes('\0')) throw new Refusal('validation_failed', 'Password cannot hold a NUL character')
  const weakness = weaknessOf(password, rules)
  if (weakness) throw new Refusal('weak_password', weakness.message, { details: weakness.reasons.join(',') })
}
