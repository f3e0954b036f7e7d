import { type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

const deleteEvents = statement(
  `with deleted as (
     delete from platform.events
      where kind like 'user.%' and not is_due and created_at < now() - make_interval(days => $1::int) returning id)
   select count(*) from deleted`,
  false,
)

/** Deletes auth events older than the given days and returns their number. */
export async function deleteEventsBefore(
  databases: Databases,
  tenant: Tenant,
  days: number,
): Promise<number> {
  const { rows } = await databases.asService(tenant, deleteEvents, [String(days)])
  return Number(rows[0]![0]!.toString())
}
