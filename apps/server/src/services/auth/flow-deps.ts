// Dependencies that the flows of this service share; service.ts builds them once.
import type { UserPasswords } from '#src/kernel/crypto/password.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import type { EmailService } from '#src/services/email/service.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { HashOneTime } from './mail/one-time-code.ts'
import type { Limits } from './rate-limits.ts'
import type { Tokens } from './tokens.ts'

export interface FlowDeps {
  databases: Databases
  email: Pick<EmailService, 'enqueue'>
  passwords: UserPasswords
  limits: Limits
  tokens: Tokens
  hashOneTime: HashOneTime
  sealer: Sealer
  /** Public URL of the platform. */
  baseUrl: () => string
  log: Log
}
