/** A Postgres text array as one parameter value. Every element is quoted, so that the text NULL is not read as null. */
export const arrayLiteral = (elements: readonly (string | null)[]): string =>
  `{${elements.map(element => (element === null ? 'NULL' : `"${escaped(element)}"`)).join()}}`

const escaped = (element: string): string =>
  element.includes('"') || element.includes('\\') ? element.replace(/["\\]/g, '\\$&') : element
