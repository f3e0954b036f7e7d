// GraphQL requests on the native and the alias path, and the envelope of GraphQL contract §1.
import assert from 'node:assert/strict'
import { userJwt } from './people.ts'
import { type Ask, type RowsApi, rowsProject } from './rows.ts'
import type { Target } from './target.ts'
import type { Reply } from './wire.ts'

export interface Operation extends Pick<Ask, 'as' | 'shape'> {
  variables?: unknown
  operationName?: unknown
  extensions?: unknown
}

export interface GraphqlApi {
  rows: RowsApi
  /** Sends any body. A string is sent unchanged. */
  post(body: unknown, options?: Pick<Ask, 'as' | 'shape'>): Promise<Reply>
  /** Sends a GET with these parameters. Objects are sent as JSON. */
  get(parameters: Record<string, unknown>, options?: Pick<Ask, 'as' | 'shape'>): Promise<Reply>
  ask(query: string, operation?: Operation): Promise<Reply>
  /** The data of a document, which must succeed. */
  data(query: string, operation?: Operation): Promise<any>
  /** The message of a document, which must fail. */
  error(query: string, operation?: Operation): Promise<string>
  /** The nodes of the only collection of a document. */
  nodes(query: string, operation?: Operation): Promise<any[]>
}

export async function graphqlProject(
  target: Target,
  schema: string,
  options?: Parameters<typeof rowsProject>[2],
): Promise<GraphqlApi> {
  const rows = await rowsProject(target, schema, options)
  const { project } = rows
  const credentials = (as: Ask['as'] = 'anon') => ({
    apikey: as === 'service_role' ? project.service_role_key : project.anon_key,
    token: typeof as === 'object' ? userJwt(project, as) : undefined,
  })
  const post: GraphqlApi['post'] = (body, { as, shape } = {}) =>
    target.call('POST', graphqlPath(project, shape), { ...credentials(as), body })
  const ask: GraphqlApi['ask'] = (query, { as, shape, ...rest } = {}) =>
    post({ query, ...rest }, { ...(as !== undefined && { as }), ...(shape !== undefined && { shape }) })
  const data: GraphqlApi['data'] = async (query, operation) => dataOf(await ask(query, operation), query)
  return {
    rows,
    post,
    get(parameters, { as, shape } = {}) {
      const search = new URLSearchParams()
      for (const [name, value] of Object.entries(parameters))
        search.set(name, typeof value === 'string' ? value : JSON.stringify(value))
      return target.call('GET', `${graphqlPath(project, shape)}?${search}`, credentials(as))
    },
    ask,
    data,
    error: async (query, operation) => messageOf(await ask(query, operation), query),
    async nodes(query, operation) {
      const collections = Object.values<any>(await data(query, operation))
      assert.equal(collections.length, 1)
      return collections[0].edges.map(({ node }: { node: unknown }) => node)
    },
  }
}

export const graphqlPath = ({ id }: { id: string }, shape: Ask['shape'] = 'native') =>
  shape === 'alias' ? `/v1/${id}/graphql/v1` : `/v1/graphql/${id}`

export function dataOf(reply: Reply, query = ''): any {
  assertJson(reply, query)
  assert.deepEqual(Object.keys(reply.body), ['data'], `${query}\n${reply.text}`)
  return reply.body.data
}

export function messageOf(reply: Reply, query = ''): string {
  assertJson(reply, query)
  const { data, errors, ...rest } = reply.body
  assert.equal(data, null, `${query}\n${reply.text}`)
  assert.deepEqual(rest, {})
  assert.ok(Array.isArray(errors) && errors.length > 0, `${query}\n${reply.text}`)
  for (const error of errors) {
    assert.equal(typeof error.message, 'string', reply.text)
    assert.notEqual(error.message, '')
    assert.ok(!('path' in error) && !('locations' in error), reply.text)
  }
  return errors.map(({ message }: { message: string }) => message).join('\n')
}

function assertJson(reply: Reply, query: string): void {
  assert.equal(reply.status, 200, `${query}\n${reply.status} ${reply.text}`)
  assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
}

export interface FieldInfo {
  name: string
  /** As in SDL, for example `[posts!]!`. */
  type: string
  args: Record<string, string>
  description: string | null
}

const typeRef = 'kind name ofType{kind name ofType{kind name ofType{kind name ofType{kind name}}}}'
const typeQuery = `query($name:String!){__type(name:$name){
  kind description
  fields{name description type{${typeRef}} args{name type{${typeRef}}}}
  inputFields{name description type{${typeRef}}}
  enumValues{name}
}}`

function written({ kind, name, ofType }: any): string {
  if (kind === 'NON_NULL') return `${written(ofType)}!`
  return kind === 'LIST' ? `[${written(ofType)}]` : name
}

export interface TypeInfo {
  kind: string
  description: string | null
  /** Output or input fields by name. */
  fields: Record<string, FieldInfo>
  enumValues: string[]
}

/** A type as introspection shows it, or null if the role has no such type. */
export async function typeOf(
  api: GraphqlApi,
  name: string,
  as: NonNullable<Ask['as']> = 'anon',
): Promise<TypeInfo | null> {
  const { __type: type } = await api.data(typeQuery, { variables: { name }, as })
  if (type === null) return null
  const fields: Record<string, FieldInfo> = {}
  for (const field of type.fields ?? type.inputFields ?? [])
    fields[field.name] = {
      name: field.name,
      type: written(field.type),
      description: field.description,
      args: Object.fromEntries((field.args ?? []).map((arg: any) => [arg.name, written(arg.type)])),
    }
  return {
    kind: type.kind,
    description: type.description,
    fields,
    enumValues: (type.enumValues ?? []).map((value: any) => value.name),
  }
}

/** The types of the fields of a type. */
export async function fieldTypes(
  api: GraphqlApi,
  name: string,
  as: NonNullable<Ask['as']> = 'anon',
): Promise<Record<string, string>> {
  const type = await typeOf(api, name, as)
  assert.ok(type, `no type ${name}`)
  return Object.fromEntries(Object.values(type.fields).map(field => [field.name, field.type]))
}
