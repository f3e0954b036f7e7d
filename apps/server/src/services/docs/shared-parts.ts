// The common parts of all row API documents.

const query = (name: string, description: string, schema: object = { type: 'string' }) => ({
  name,
  in: 'query',
  description,
  schema,
})
const header = (name: string, description: string, values?: readonly string[]) => ({
  name,
  in: 'header',
  description,
  schema: { type: 'string', ...(values && { enum: values }) },
})

export const parameters = {
  select: query('select', 'Columns and embedded relations, e.g. `id,author(name)`.'),
  order: query('order', 'e.g. `name.desc.nullslast,id`.'),
  limit: query('limit', 'Rows to return.', { type: 'integer', minimum: 0 }),
  offset: query('offset', 'Rows to skip.', { type: 'integer', minimum: 0 }),
  or: query('or', 'Alternatives, e.g. `(age.gt.18,name.is.null)`.'),
  and: query('and', 'Conditions that all hold, e.g. `(age.gt.18,age.lt.65)`.'),
  columns: query('columns', 'The columns to take from the body.'),
  onConflict: query('on_conflict', 'The columns by which a row counts as there already.'),
  range: header('Range', 'Rows to return, e.g. `0-9`.'),
  preferCount: header('Prefer', 'Counts the rows into `Content-Range`.', [
    'count=exact',
    'count=planned',
    'count=estimated',
  ]),
  preferReturn: header('Prefer', 'Whether the rows are answered; also `resolution=`, `missing=`, `tx=`.', [
    'return=representation',
    'return=minimal',
    'return=headers-only',
    'resolution=merge-duplicates',
    'resolution=ignore-duplicates',
  ]),
} as const

/** Columns with these names cannot be filtered by their plain name, because the query parameter is reserved. */
export const reservedParameters: ReadonlySet<string> = new Set([
  'select',
  'order',
  'limit',
  'offset',
  'or',
  'and',
  'columns',
  'on_conflict',
])

export const filterParameter = (name: string, sqlType: string) =>
  query(
    name,
    `Filter on a column of type ${sqlType}, e.g. \`eq.value\`, \`gt.value\`, \`in.(a,b)\`, \`is.null\`.`,
  )

export const securitySchemes = {
  apikey: { type: 'apiKey', in: 'header', name: 'apikey', description: 'The anon or service_role key.' },
  bearer: { type: 'http', scheme: 'bearer', description: 'The JWT of a signed-in user.' },
}

const text = { type: 'string' }
export const errorAnswer = {
  schema: {
    type: 'object',
    required: ['code', 'message'],
    properties: {
      code: text,
      message: text,
      details: text,
      hint: text,
      error: text,
      statusCode: { type: 'integer' },
    },
  },
  response: {
    description: 'Refused.',
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  },
}
