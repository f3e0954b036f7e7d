// Automatic persisted queries: clients send the hash of a document, and its text only if this node does not know it.
import { DocumentProblem } from './compile/problem.ts'
import { Recent } from './recent.ts'
import { type GraphqlRequest, hashOf } from './request.ts'

/** A document has at most as many bytes as one that is not persisted. */
const max = { projects: 1000, documents: 200 }

/** The client then sends the text. */
export class UnknownHash extends Error {
  override readonly name = 'UnknownHash'
}

/** The text of a request's document. Longer texts than `maxLength` are not kept. */
export function createPersisted(maxLength: number): (projectId: string, request: GraphqlRequest) => string {
  const known = new Recent<Recent<string>>(max.projects)
  return (projectId, { query, hash }) => {
    if (hash === undefined) return query!
    const own = known.get(projectId) ?? new Recent<string>(max.documents)
    if (query === undefined) {
      const found = own.get(hash)
      if (found === undefined) throw new UnknownHash()
      return found
    }
    if (hashOf(query) !== hash)
      throw new DocumentProblem('The hash of extensions.persistedQuery is not that of "query"')
    if (query.length <= maxLength) own.set(hash, query)
    known.set(projectId, own)
    return query
  }
}
