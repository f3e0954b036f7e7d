// Who asks, as the database and the folders of users see it.
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Caller, RequestFacts } from '#src/tenancy/databases.ts'
import { checkBucketName, isInOwnFolder, isUserBucket } from './names.ts'
import { denied } from './refusals.ts'
import type { Act } from './store.ts'

/** For policies that read what the request is. */
export function actOf(
  caller: Caller,
  request: RequestHead,
  operation: string,
  more?: Partial<RequestFacts>,
): Act {
  const facts = {
    method: request.method,
    path: request.path,
    headers: JSON.stringify(request.headers),
    operation: `storage.${operation}`,
    ...more,
  }
  return { caller, facts }
}

/** Somebody else's folder is refused in the same words whether it is there or not. */
export function checkFolder({ role, userId }: Caller, bucket: string, name: string): void {
  if (!isUserBucket(bucket) || role === 'service_role') return
  if (role !== 'authenticated' || !isInOwnFolder(name, userId)) throw othersFolder()
}

export function checkListed(caller: Caller, bucket: string, prefix = ''): void {
  checkBucketName(bucket)
  if (!isUserBucket(bucket) || prefix === '' || caller.role === 'service_role') return
  // Of a name that is not written to its end yet, what is there must be the beginning of the caller's own.
  const own = `${caller.userId}/`
  if (caller.userId === '' || !(`${prefix}/`.startsWith(own) || own.startsWith(prefix))) throw othersFolder()
}

const othersFolder = () =>
  denied('In a bucket whose name begins with user-, each user can reach the folder of that user only')
