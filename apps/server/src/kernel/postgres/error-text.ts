// The text of an error that Postgres reports, before it is passed on to callers and owners.

/** Characters of a message, detail, hint or context. A tenant's function can raise an error of any length. */
const maxText = 64 * 1024

/**
 * The codes under which the server writes names of files into its errors: those it derives from the error of a system
 * call (58, 53, XX, 42501, 42809), of its configuration (F0), and of an extension that is not installed (0A000). Other
 * errors quote values of the tenant, which may look like a path and are not changed.
 */
const namesFiles = /^(58...|53...|XX...|F0...|42501|42809|0A000)$/
/** In these, the text of the dynamic linker follows, which does not quote its paths. */
const quotesLinker = /^(58...|XX...)$/

const quotedPath = /"((?:\/|base\/|global\/|pg_\w{1,20}\/)[^"]*)"/g
const barePath = /(?<![\w/.$"])\/(?:[^\s"':;,/]+\/)+([^\s"':;,/]*)/g

/** `exec_stmt_raise` in PL/pgSQL: the whole text is the tenant's. */
const raisedByTenant = 'exec_stmt_raise'

/** Bounded, and with names of files instead of paths of the machine. */
export function passableText<T extends string | undefined>(
  text: T,
  code: string,
  routine: string | undefined,
): T {
  if (text === undefined) return text
  const bounded = text.length > maxText ? `${text.slice(0, maxText)}…` : text
  if (!namesFiles.test(code) || routine === raisedByTenant) return bounded as T
  const named = bounded.replace(quotedPath, (_, path: string) => `"${path.slice(path.lastIndexOf('/') + 1)}"`)
  return (quotesLinker.test(code) ? named.replace(barePath, '$1') : named) as T
}

/** An error that the server reported, whichever client received it. */
export interface ServerError extends Error {
  code: string
  severity: string
  detail?: string
  hint?: string
  position?: string
  where?: string
  schema?: string
  routine?: string
}

export function isServerError(error: unknown): error is ServerError {
  if (!(error instanceof Error)) return false
  const { code, severity } = error as Partial<ServerError>
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && typeof severity === 'string'
}

/** Changes the driver's own error, which reaches callers on many ways. */
export function makePassable(error: ServerError): void {
  const { code, routine } = error
  error.message = passableText(error.message, code, routine)
  for (const field of ['detail', 'hint', 'where'] as const) {
    const text = error[field]
    if (text !== undefined) error[field] = passableText(text, code, routine)
  }
}

/**
 * Whether the session has ended with it, by the server's doing. Class 25 and 57P05 are timeouts of transactions and
 * sessions, which the tenant's own settings choose.
 */
export const endsSession = ({ severity, code }: Pick<ServerError, 'severity' | 'code'>): boolean =>
  severity === 'PANIC' || (severity === 'FATAL' && !/^(25...|57P05)$/.test(code))

/** The function that an error happened in, the innermost first: `PL/pgSQL function public.f() line 1`. */
const schemaOfFunction = (where = '') => /\bfunction "?(\w+)/.exec(where)?.[1]
const isOurs = (schema: string | undefined) => schema === 'auth' || schema === 'platform'

/** Whether it happened in a function of a tenant. Tenants create none in the schemas of the platform. */
export function isInTenantCode({ where }: Pick<ServerError, 'where'>): boolean {
  const schema = schemaOfFunction(where)
  return schema !== undefined && !isOurs(schema)
}

/**
 * Whether code or data of a tenant caused it, and not a statement of the platform that is wrong. A statement of ours that
 * names something that is not there, say, has no context, or that of a function of ours.
 */
export const isOfTenant = (error: ServerError): boolean =>
  error.severity === 'ERROR' &&
  (!/^(03|08|26|34|42)/.test(error.code) || (Boolean(error.where) && !isOurs(schemaOfFunction(error.where))))
