// Reads pages of collections whose primary key is id.
import type { GraphqlApi } from './graphql.ts'

export interface Page {
  ids: any[]
  cursors: string[]
  hasNextPage: boolean
  hasPreviousPage: boolean
  startCursor: string | null
  endCursor: string | null
}

export const pageOf = (name: string, args: string) =>
  `{ ${name}Collection${args && `(${args})`} { edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`

export async function readPage(api: GraphqlApi, name: string, args: string): Promise<Page> {
  const { edges, pageInfo } = (await api.data(pageOf(name, args)))[`${name}Collection`]
  return {
    ids: edges.map(({ node }: any) => node.id),
    cursors: edges.map(({ cursor }: any) => cursor),
    ...pageInfo,
  }
}

/** The argument for a cursor with these values. */
export const cursorOf = (...values: unknown[]) =>
  JSON.stringify(Buffer.from(JSON.stringify(values)).toString('base64'))
