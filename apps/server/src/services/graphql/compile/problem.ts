import { QueryError } from '#src/query/problem.ts'

/** Something is wrong with the document or its variables. The client gets the messages in `errors`. */
export class DocumentProblem extends QueryError {
  constructor(...messages: string[]) {
    super({ kind: 'invalid query', messages })
  }
}
