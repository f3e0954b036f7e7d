// Names of the types that belong to every schema, and of those that belong to one table.

const scalars = [
  ...['ID', 'Int', 'Float', 'String', 'Boolean', 'BigInt', 'BigFloat', 'UUID'],
  ...['Date', 'Time', 'Datetime', 'JSON', 'Opaque'],
]

export const filterName = (of: string, isList: boolean): string => `${of}${isList ? 'List' : ''}Filter`

export const enumTypeNames = (name: string): string[] => [
  name,
  filterName(name, false),
  filterName(name, true),
]

export const reservedTypes = [
  ...['Query', 'Mutation', 'Subscription', 'Node', 'PageInfo', 'Cursor'],
  ...scalars.flatMap(enumTypeNames),
  ...['OrderByDirection', 'FilterIs', 'OnConflictAction'],
]

const suffixes = [
  ...['', 'Connection', 'Edge', 'Filter', 'OrderBy', 'InsertInput', 'UpdateInput', 'InsertResponse'],
  ...['UpdateResponse', 'DeleteResponse', 'Aggregate', 'SumAggregateResult', 'AvgAggregateResult'],
  ...['MinAggregateResult', 'MaxAggregateResult', 'OnConflict', 'Column', 'SomeFilter'],
]

export const derivedNames = (name: string): string[] => suffixes.map(suffix => `${name}${suffix}`)
