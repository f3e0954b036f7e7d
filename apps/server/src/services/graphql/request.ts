// Reads a GraphQL request from a body or a query string.
import { createHash } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import { readJson } from '#src/kernel/http/json-body.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import { DocumentProblem } from './compile/problem.ts'

export interface GraphqlRequest {
  readonly query: string | undefined
  readonly variables: Readonly<Record<string, unknown>>
  readonly operationName: string | undefined
  /** The length of the body or the query string. */
  readonly bytes: number
  /** The SHA-256 hash of a persisted document, in hexadecimal digits. */
  readonly hash: string | undefined
}

export const maxBodyBytes = 2 * 1024 * 1024
const limits = { maxValues: 10_000, anyKey: true }

/** Members of the wrong type are errors of the document, a body that is not JSON is not. */
export async function requestIn(raw: RawRequest): Promise<GraphqlRequest> {
  if (raw.method === 'GET') return await fromSearch(raw.search)
  const body = await readBody(raw, maxBodyBytes)
  const value = await readJson(body, limits)
  if (value === undefined)
    throw new Refusal('invalid_json', 'The body is empty: send a JSON object with the field "query"')
  if (Array.isArray(value))
    throw new DocumentProblem('Batches are not supported: send one operation per request')
  if (!isObject(value)) throw new DocumentProblem('The body must be a JSON object with the field "query"')
  return fromMembers(value, body.length)
}

async function fromSearch(text: string): Promise<GraphqlRequest> {
  const search = new URLSearchParams(text)
  const member = async (name: string) => {
    try {
      return await readJson(Buffer.from(search.get(name) ?? ''), limits)
    } catch (cause) {
      const { message } = cause as Error
      throw new Refusal('invalid_request', `The parameter "${name}" cannot be read: ${message}`, { cause })
    }
  }
  const members = {
    query: search.get('query') ?? undefined,
    operationName: search.get('operationName') ?? undefined,
    variables: await member('variables'),
    extensions: await member('extensions'),
  }
  return fromMembers(members, text.length)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function fromMembers(members: Record<string, unknown>, bytes: number): GraphqlRequest {
  const { query, variables, operationName, extensions } = members
  const hash = hashIn(extensions)
  if (query === undefined || query === null || query === '') {
    if (hash === undefined) throw new DocumentProblem('The field "query" is missing')
  } else if (typeof query !== 'string') throw new DocumentProblem('The field "query" must be a string')
  if (variables !== undefined && variables !== null && !isObject(variables))
    throw new DocumentProblem('The field "variables" must be an object')
  if (operationName !== undefined && operationName !== null && typeof operationName !== 'string')
    throw new DocumentProblem('The field "operationName" must be a string')
  return {
    query: (query as string | null | undefined) || undefined,
    variables: (variables as Record<string, unknown> | null | undefined) ?? {},
    operationName: (operationName as string | null | undefined) ?? undefined,
    bytes,
    hash,
  }
}

function hashIn(extensions: unknown): string | undefined {
  if (extensions === undefined || extensions === null) return
  if (!isObject(extensions)) throw new DocumentProblem('The field "extensions" must be an object')
  const persisted = extensions['persistedQuery']
  if (persisted === undefined || persisted === null) return
  const hash = isObject(persisted) && persisted['version'] === 1 ? persisted['sha256Hash'] : undefined
  if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/i.test(hash))
    throw new DocumentProblem(
      'extensions.persistedQuery must be { version: 1, sha256Hash } with a hash of 64 hexadecimal digits',
    )
  return hash.toLowerCase()
}

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')
