import type { CreatedQueue } from '@plinth/contract/queue.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export const createQueue = (session: Session, name: string) =>
  session.run(sql`select pgmq.create(${name}::text)`)

export const findQueue = (session: Session, name: string) =>
  session.row<Omit<CreatedQueue, 'queue'>>(sql`
    select queue_name, is_partitioned, is_unlogged, pg_catalog.to_json(created_at) #>> '{}' as created_at
      from pgmq.meta where lower(queue_name) = ${name}`)

/** False if the queue did not exist. */
export const dropQueue = async (session: Session, name: string): Promise<boolean> =>
  (await session.row<{ existed: boolean }>(sql`select pgmq.drop_queue(${name}::text) as existed`))?.existed ??
  false
