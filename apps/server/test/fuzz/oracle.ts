// Runs plain SQL as the same role with the same claims, on a separate connection.
import pg from 'pg'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import type { Change } from './changes.ts'
import type { Who } from './markers.ts'
import { changeSql, readSql } from './oracle-sql.ts'
import type { Read } from './query.ts'

export interface Refused {
  code: string
  message: string
}
export type SqlResult = { body: string; total: number } | Refused

export interface Oracle {
  ask(read: Read): Promise<SqlResult>
  /** The result of a change, which is rolled back. */
  askChange(change: Change): Promise<SqlResult>
  close(): Promise<void>
}

export function openOracle(address: ServerAddress, database: string, claims: Record<Who, object>): Oracle {
  const { host, port, user, password } = address
  const settings = '-c search_path=public,extensions -c TimeZone=UTC'
  const pool = new pg.Pool({ host, port, user, password, database, max: 4, options: settings })

  async function answer(who: Who, statement: string): Promise<SqlResult> {
    const client = await pool.connect()
    try {
      await client.query('begin')
      await client.query(`set local role ${role(who)}`)
      await client.query(`select set_config('request.jwt.claims', $1, true)`, [JSON.stringify(claims[who])])
      const { rows } = await client.query<{ body: string; total: string }>(statement)
      return { body: rows[0]!.body, total: Number(rows[0]!.total) }
    } catch (error) {
      const { code = '', message } = error as Error & { code?: string }
      return { code, message }
    } finally {
      await client.query('rollback')
      client.release()
    }
  }

  return {
    ask: read => answer(read.who, readSql(read)),
    askChange: change => answer(change.who, changeSql(change)),
    close: () => pool.end(),
  }
}

const role = (who: Who) => (who === 'anon' ? 'anon' : who === 'service' ? 'service_role' : 'authenticated')
