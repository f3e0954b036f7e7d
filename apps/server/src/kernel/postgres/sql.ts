// The `sql` template tag. Values become parameters, fragments can be nested, and the text itself is always ours.

export interface Sql {
  readonly text: string
  readonly values: readonly unknown[]
}

class Fragment {
  readonly parts: readonly string[]
  readonly holes: readonly unknown[]
  constructor(parts: readonly string[], holes: readonly unknown[]) {
    this.parts = parts
    this.holes = holes
  }
}
export type SqlFragment = Fragment

export const sql = (parts: TemplateStringsArray, ...holes: unknown[]): SqlFragment =>
  new Fragment(parts, holes)

/** Trusted text that is not known when the template is written, such as the name of a table. */
export const raw = (text: string): SqlFragment => new Fragment([text], [])

/** Joins conditions with `and`. Without any, everything matches. */
export const allOf = (conditions: readonly SqlFragment[]): SqlFragment =>
  conditions.reduce((left, right) => sql`${left} and ${right}`, sql`true`)

export function compile(fragment: SqlFragment): Sql {
  const values: unknown[] = []
  const write = ({ parts, holes }: Fragment): string =>
    parts.reduce((text, part, index) => {
      const hole = holes[index - 1]
      return text + (hole instanceof Fragment ? write(hole) : `$${values.push(hole)}`) + part
    })
  return { text: write(fragment), values }
}

/** An identifier inside a statement that takes no parameters (DDL). */
export const identifier = (name: string): string => `"${name.replaceAll('"', '""')}"`
/**
 * A literal inside a statement that takes no parameters (DDL). With backslashes it is written as an escape string, which
 * does not depend on `standard_conforming_strings`.
 */
export function literal(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted
}
