// Splits a row in JSON text into its columns without parsing the values, so that numbers keep every digit.
import { memberTexts } from '../json-text.ts'

/** The JSON text of each value by column name. */
export const columnsOf: (row: string) => Map<string, string> = memberTexts

/** A row with only the named columns. */
export function rowOf(columns: ReadonlyMap<string, string>, names: readonly string[]): string {
  const parts: string[] = []
  for (const name of names) {
    const value = columns.get(name)
    if (value !== undefined) parts.push(`${JSON.stringify(name)}:${value}`)
  }
  return `{${parts.join(',')}}`
}
