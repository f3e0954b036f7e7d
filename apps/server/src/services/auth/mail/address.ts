import { Refusal } from '#src/kernel/errors.ts'
import { isAddress } from '#src/kernel/outbound/smtp-server.ts'

const domain = /^(?!-)[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63})*$/u

/** Returns the address in lower case, the form in which addresses are stored and compared. */
export function addressFrom(given: unknown): string {
  if (typeof given !== 'string' || given.trim() === '')
    throw new Refusal('validation_failed', 'An email address is required')
  const address = given.trim().toLowerCase()
  if (address.length > 255) throw new Refusal('validation_failed', 'An email address is too long')
  if (!isAddress(address) || !domain.test(address.slice(address.lastIndexOf('@') + 1)))
    throw new Refusal('validation_failed', 'Unable to validate email address: invalid format')
  return address
}
