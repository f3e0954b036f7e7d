// Why a data-plane request is 401. A stranger learns nothing about projects: the reason depends on the request alone, or
// on a key or signature of the project. An unknown project, an unknown key and another project's key are one reason.
import { Refusal } from '#src/kernel/errors.ts'

export type Denial =
  | { readonly kind: 'no credential' | 'unknown key' | 'management token' | 'token without key' }
  /** The token is not a JWT of this project. */
  | { readonly kind: 'undecodable'; readonly message: string; readonly details?: string }
  /** The claims of the token are invalid now, or its session has ended. */
  | { readonly kind: 'claims'; readonly message: string }

const sendKey = 'Send a key of the project in the header apikey.'
const wording = {
  'no credential': ['No credential was sent', sendKey],
  'unknown key': [
    'Unknown project or key',
    'Check the id of the project, and send one of its current keys in the header apikey.',
  ],
  'management token': [
    'This is a token of the management API, which projects do not accept',
    `${sendKey} The management API is at /api/v1.`,
  ],
  'token without key': ['A user’s token needs a key of the project beside it', sendKey],
} as const

export class Unauthorized extends Refusal {
  readonly denial: Denial
  constructor(denial: Denial) {
    const [message, hint] =
      'message' in denial ? [denial.message, 'Sign in again, or refresh the session.'] : wording[denial.kind]
    const details = 'details' in denial ? denial.details : ''
    super('unauthorized', message, { hint, details, headers: { 'www-authenticate': challenge(denial) } })
    this.denial = denial
  }
}

/** RFC 6750: only a token that was sent has an error. */
const challenge = (denial: Denial): string =>
  'message' in denial ? `Bearer error="invalid_token", error_description="${denial.message}"` : 'Bearer'

export const unknownKey = () => new Unauthorized({ kind: 'unknown key' })
export const sessionEnded = () =>
  new Unauthorized({ kind: 'claims', message: 'The session of this JWT has ended' })
