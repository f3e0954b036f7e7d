// Classifies errors by their origin: the server that ends a session, code of a tenant, or a statement of the platform.
import type { DatabaseError } from './database-error.ts'

/**
 * Whether the server has ended the session. Class 25 and 57P05 are excluded: they are timeouts of idle transactions and
 * sessions, which the tenant can configure.
 */
export const endsSession = ({ severity, code }: Pick<DatabaseError, 'severity' | 'code'>): boolean =>
  severity === 'PANIC' || (severity === 'FATAL' && !/^(25...|57P05)$/.test(code))

/** The schema of the innermost function in the context: `PL/pgSQL function public.f() line 1`. */
const schemaOfFunction = (where = '') => /\bfunction "?(\w+)/.exec(where)?.[1]
const isOurs = (schema: string | undefined) => schema === 'auth' || schema === 'platform'

/** Whether the error happened in a function of a tenant. Tenants cannot create functions in the platform's schemas. */
export function isInTenantCode({ where }: Pick<DatabaseError, 'where'>): boolean {
  const schema = schemaOfFunction(where)
  return schema !== undefined && !isOurs(schema)
}

/**
 * Whether code or data of a tenant caused the error, and not a wrong statement of the platform. If, for example, a
 * statement of the platform names a missing table, the context is empty or has a function of the platform.
 */
export const isOfTenant = (error: Pick<DatabaseError, 'severity' | 'code' | 'where'>): boolean =>
  error.severity === 'ERROR' &&
  (!/^(03|08|26|34|42)/.test(error.code) || (Boolean(error.where) && !isOurs(schemaOfFunction(error.where))))
