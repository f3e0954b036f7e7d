// Data plane options of the row API: a 401 has the codes of PostgREST, on which clients refresh their session.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { DataPlaneOptions } from '#src/planes/data/plane.ts'
import { type Denial, Unauthorized } from '#src/planes/data/unauthorized.ts'

const codes: Partial<Record<Denial['kind'], ErrorCode>> = {
  'no credential': 'PGRST302',
  undecodable: 'PGRST301',
  claims: 'PGRST303',
}

export const explainRestError: NonNullable<DataPlaneOptions['explain']> = error => {
  const code = error instanceof Unauthorized ? codes[error.denial.kind] : undefined
  if (!code) return error
  const { message, hint, details, headers, denial } = error as Unauthorized
  return denial.kind === 'no credential'
    ? new Refusal(code, 'Anonymous access is disabled', { hint, details: message, headers })
    : new Refusal(code, message, { hint, details, headers })
}

export const restPlane: DataPlaneOptions = { explain: explainRestError }
