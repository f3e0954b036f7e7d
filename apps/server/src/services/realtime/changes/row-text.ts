// A row as Postgres has written it in JSON, taken apart without being read: numbers keep every digit.
import { memberTexts } from '../json-text.ts'

/** The text of each column's value, by name. */
export const columnsOf: (row: string) => Map<string, string> = memberTexts

/** Some of the columns, as a row again. */
export function rowOf(columns: ReadonlyMap<string, string>, names: readonly string[]): string {
  const parts: string[] = []
  for (const name of names) {
    const value = columns.get(name)
    if (value !== undefined) parts.push(`${JSON.stringify(name)}:${value}`)
  }
  return `{${parts.join(',')}}`
}
