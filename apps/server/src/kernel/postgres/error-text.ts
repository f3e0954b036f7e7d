// Removes paths of the machine from error messages of Postgres, and limits their length.

/** Maximum characters of a message, detail, hint or context. A tenant's function can raise an error of any length. */
const maxText = 64 * 1024

/**
 * The codes of errors that contain paths: errors of system calls (58, 53, XX, 42501, 42809), of the configuration (F0),
 * and of extensions that are not installed (0A000). Other errors quote values of the tenant, which may look like a path
 * and are not changed.
 */
const namesFiles = /^(58...|53...|XX...|F0...|42501|42809|0A000)$/
/** These also contain a message of the dynamic linker, which does not quote its paths. */
const quotesLinker = /^(58...|XX...)$/

const quotedPath = /"((?:\/|base\/|global\/|pg_\w{1,20}\/)[^"]*)"/g
const barePath = /(?<![\w/.$"])\/(?:[^\s"':;,/]+\/)+([^\s"':;,/]*)/g

/** The routine of RAISE in PL/pgSQL. The tenant wrote the whole text. */
const raisedByTenant = 'exec_stmt_raise'

/** Truncates the text and replaces paths by file names. */
export function sanitizeErrorText<T extends string | undefined>(
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
