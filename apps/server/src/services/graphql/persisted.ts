// Automatic persisted queries: clients send the hash of a document, and its text only if this node does not know it.
import { DocumentProblem } from './compile/problem.ts'
import { Recent } from './recent.ts'
import { type GraphqlRequest, hashOf } from './request.ts'

/** Together they take 125 MB at most. */
const max = { projects: 500, documents: 200, charactersPerProject: 250_000 }

/** The client then sends the text. */
export class UnknownHash extends Error {
  override readonly name = 'UnknownHash'
}

/** The text of a request's document. */
export function createPersisted(): (projectId: string, request: GraphqlRequest) => string {
  const known = new Recent<Recent<string>>(max.projects)
  return (projectId, { query, hash }) => {
    if (hash === undefined) return query!
    const own = known.get(projectId) ?? new Recent<string>(max.documents, max.charactersPerProject)
    if (query === undefined) {
      const found = own.get(hash)
      if (found === undefined) throw new UnknownHash()
      return found
    }
    if (hashOf(query) !== hash)
      throw new DocumentProblem('The hash of extensions.persistedQuery is not that of "query"')
    own.set(hash, query, query.length)
    known.set(projectId, own)
    return query
  }
}
