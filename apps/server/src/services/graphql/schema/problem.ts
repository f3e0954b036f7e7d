/** The schema cannot be shown: a comment in the database is wrong. Every request gets the message. */
export class SchemaProblem extends Error {
  override readonly name = 'SchemaProblem'
}
