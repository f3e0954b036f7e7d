import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface SecretsRow {
  settings: Readonly<Record<string, unknown>>
  anon_key: string
  service_role_key: string
  jwt_secret: string
}

const columns = sql`settings, anon_key, service_role_key, jwt_secret`

/** A page of projects after the given id, in the order of ids. */
export const listSecrets = (control: Database, after: string, limit: number) =>
  control.rows<SecretsRow & { id: string }>(sql`
    select id, ${columns} from projects
     where status in ('creating', 'active', 'suspended') and id > ${after}::uuid order by id limit ${limit}`)

export const lockSecrets = (session: Session, id: string) =>
  session.row<SecretsRow>(sql`select ${columns} from projects where id = ${id} for update`)

export const saveSecrets = (
  session: Session,
  id: string,
  { settings, anon_key, service_role_key, jwt_secret }: SecretsRow,
) =>
  session.run(sql`
    update projects set settings = ${JSON.stringify(settings)}, anon_key = ${anon_key},
           service_role_key = ${service_role_key}, jwt_secret = ${jwt_secret}
     where id = ${id}`)
