import type { OwnSession } from '#src/kernel/postgres/database.ts'

/** Whether SQL of a tenant has begun a transaction and not ended it: time stands still in one. */
export async function leavesTransactionOpen(session: OwnSession): Promise<boolean> {
  let answer: string | null | undefined
  const tag = await session
    .results('select pg_catalog.now() operator(pg_catalog.<>) pg_catalog.statement_timestamp()', {
      begin() {},
      row([value]) {
        answer = value
      },
    })
    // A transaction that has failed answers nothing but errors.
    .catch(() => 'SELECT 1')
  return tag === 'SELECT 1' && answer !== 'f'
}
