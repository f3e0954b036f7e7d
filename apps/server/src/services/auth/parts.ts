// What the flows of this service are made of; app.ts gives it once.
import type { UserPasswords } from '#src/kernel/crypto/password.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Log } from '#src/kernel/log.ts'
import type { EmailService } from '#src/services/email/service.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Limits } from './limits.ts'
import type { HashOneTime } from './mail/one-time-code.ts'
import type { Tokens } from './tokens.ts'

export interface AuthParts {
  databases: Databases
  email: Pick<EmailService, 'enqueue'>
  passwords: UserPasswords
  limits: Limits
  tokens: Tokens
  hashOneTime: HashOneTime
  sealer: Sealer
  /** Where clients reach the platform. */
  baseUrl: () => string
  log: Log
}

/** Who asked, for the record of a session. */
export interface ClientFacts {
  ip: string
  userAgent: string | undefined
}

export const clientOf = ({ ip, headers }: RequestHead): ClientFacts => ({
  ip,
  userAgent: headers['user-agent']?.slice(0, 512),
})
