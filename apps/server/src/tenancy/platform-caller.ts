// The caller of statements that the platform runs outside of any request.
import type { Caller, RequestFacts } from './databases.ts'
import type { Tenant } from './directory.ts'

export const platformCaller = (tenant: Tenant): Caller => ({
  tenant,
  role: 'service_role',
  claims: '{"role":"service_role"}',
  userId: '',
  sessionId: '',
})

export const readOnlyFacts: RequestFacts = { method: 'GET', path: '', headers: '{}', isReadOnly: true }
