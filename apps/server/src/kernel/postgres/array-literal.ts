/** A Postgres text array as one parameter value. Every element is quoted, so that the text NULL is not read as null. */
export const arrayLiteral = (elements: readonly string[]): string =>
  elements.length === 0 ? '{}' : `{"${elements.map(escaped).join('","')}"}`

const escaped = (element: string): string =>
  element.includes('"') || element.includes('\\') ? element.replace(/["\\]/g, '\\$&') : element
