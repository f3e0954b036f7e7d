import type { OwnSession } from '#src/kernel/postgres/database.ts'

/** Whether SQL of a tenant has left a transaction open. In a transaction now() does not advance, which shows it. */
export async function leavesTransactionOpen(session: OwnSession): Promise<boolean> {
  let answer: string | null | undefined
  const tag = await session
    .results('select pg_catalog.now() operator(pg_catalog.<>) pg_catalog.statement_timestamp()', {
      begin() {},
      row([value]) {
        answer = value
      },
    })
    // A failed transaction rejects every statement.
    .catch(() => 'SELECT 1')
  return tag === 'SELECT 1' && answer !== 'f'
}
