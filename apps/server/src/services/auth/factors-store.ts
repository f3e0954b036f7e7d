// Second factors of users, one function per statement.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export const hasVerifiedFactor = async (session: Session, userId: string): Promise<boolean> =>
  (await session.row(
    sql`select from auth.mfa_factors where user_id = ${userId} and status = 'verified' limit 1`,
  )) !== undefined
