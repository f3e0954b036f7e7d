import type { OwnSession } from '#src/kernel/postgres/database.ts'

/** Whether SQL of a tenant has begun a transaction and not ended it: time stands still in one. */
export async function leavesTransactionOpen(session: OwnSession): Promise<boolean> {
  const { tag, rows } = await session
    .lastResult('select pg_catalog.now() operator(pg_catalog.<>) pg_catalog.statement_timestamp()')
    .catch(() => failed)
  return tag === 'SELECT 1' && rows[0]?.[0] !== 'f'
}

/** A transaction that has failed answers nothing but errors. */
const failed = { tag: 'SELECT 1', rows: [['t']] }
