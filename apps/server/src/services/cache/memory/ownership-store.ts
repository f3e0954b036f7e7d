import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export const tryLock = async (session: Session): Promise<boolean> =>
  (
    await session.row<{ taken: boolean }>(
      sql`select pg_try_advisory_lock(hashtextextended('cache keeper', 0)) as taken`,
    )
  )?.taken ?? false

export const findOwner = async (session: Session): Promise<string | undefined> =>
  (await session.row<{ keeper: string }>(sql`select keeper from public.cache_keeper`))?.keeper

export const saveOwner = (session: Session, id: string) =>
  session.run(sql`
    insert into public.cache_keeper (keeper) values (${id}) on conflict (only_row) do update set keeper = ${id}`)

export const removeOwner = (session: Session, id: string) =>
  session.run(sql`delete from public.cache_keeper where keeper = ${id}`)

export const answers = (session: Session) => session.row(sql`select 1`)
