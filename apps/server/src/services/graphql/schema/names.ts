// GraphQL names of tables, columns and functions.

const valid = /^[_A-Za-z][_0-9A-Za-z]*$/

/** Names with two leading underscores belong to introspection. */
export const isName = (name: string): boolean => valid.test(name) && !name.startsWith('__')

export const lowerFirst = (name: string): string => name.charAt(0).toLowerCase() + name.slice(1)
const upperFirst = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

export interface Names {
  type(sqlName: string): string
  column(sqlName: string): string
  function(sqlName: string): string
  /** The field of a table that leads along its foreign key, and further names for it, by importance. */
  toOne(columns: readonly string[], target: string): string[]
}

const withoutEnd = (name: string, end: string): string | undefined =>
  name.length > end.length && name.endsWith(end) ? name.slice(0, -end.length) : undefined

const verbatim: Names = {
  type: name => name,
  column: name => name,
  function: lowerFirst,
  toOne([column, ...more], target) {
    if (column === undefined || more.length > 0) return [lowerFirst(target)]
    const camel = withoutEnd(column, 'Id')
    const stripped = withoutEnd(column, '_id')
    return [camel ?? lowerFirst(target), ...(stripped === undefined ? [] : [stripped])]
  },
}

const pascal = (name: string): string => name.split('_').map(upperFirst).join('')

const inflected: Names = {
  type: pascal,
  column: name => lowerFirst(pascal(name)),
  function: name => lowerFirst(pascal(name)),
  toOne([column, ...more], target) {
    const stripped =
      column === undefined || more.length > 0
        ? undefined
        : (withoutEnd(column, '_id') ?? withoutEnd(column, 'Id'))
    return stripped === undefined ? [lowerFirst(target)] : [lowerFirst(pascal(stripped))]
  },
}

export const namesFor = (isInflected: boolean): Names => (isInflected ? inflected : verbatim)
