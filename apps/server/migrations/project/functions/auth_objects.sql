-- Users, identities and factors as clients see them: optional fields are left out when there is nothing to say.

create or replace function auth.identity_object(i auth.identities) returns jsonb
language sql stable set search_path = ''
as $$
  select jsonb_build_object(
      'identity_id', i.id, 'id', i.provider_id, 'user_id', i.user_id, 'identity_data', i.identity_data,
      'provider', i.provider, 'last_sign_in_at', i.last_sign_in_at, 'created_at', i.created_at, 'updated_at', i.updated_at)
    || jsonb_strip_nulls(jsonb_build_object('email', i.email))
$$;

create or replace function auth.factor_object(f auth.mfa_factors) returns jsonb
language sql stable set search_path = ''
as $$
  select jsonb_build_object(
      'id', f.id, 'created_at', f.created_at, 'updated_at', f.updated_at, 'status', f.status,
      'factor_type', f.factor_type, 'phone', f.phone, 'last_challenged_at', f.last_challenged_at)
    || jsonb_strip_nulls(jsonb_build_object('friendly_name', f.friendly_name))
$$;

create or replace function auth.user_object(u auth.users) returns jsonb
language sql stable set search_path = ''
as $$
  select jsonb_build_object(
      'id', u.id, 'aud', u.aud, 'role', u.role, 'email', coalesce(u.email, ''), 'phone', coalesce(u.phone, ''),
      'app_metadata', u.raw_app_meta_data, 'user_metadata', u.raw_user_meta_data,
      'identities', coalesce((
        select jsonb_agg(auth.identity_object(i) order by i.created_at, i.id)
          from (select * from auth.identities where user_id = u.id order by created_at, id limit 20) i), '[]'),
      'created_at', u.created_at, 'updated_at', u.updated_at, 'is_anonymous', u.is_anonymous)
    || jsonb_strip_nulls(jsonb_build_object(
      'email_confirmed_at', u.email_confirmed_at, 'phone_confirmed_at', u.phone_confirmed_at,
      'confirmed_at', u.confirmed_at, 'invited_at', u.invited_at, 'confirmation_sent_at', u.confirmation_sent_at,
      'recovery_sent_at', u.recovery_sent_at, 'email_change_sent_at', u.email_change_sent_at,
      'phone_change_sent_at', u.phone_change_sent_at, 'reauthentication_sent_at', u.reauthentication_sent_at,
      'last_sign_in_at', u.last_sign_in_at, 'banned_until', u.banned_until, 'deleted_at', u.deleted_at,
      'new_email', nullif(u.email_change, ''), 'new_phone', nullif(u.phone_change, '')))
    || coalesce((
      select jsonb_build_object('factors', jsonb_agg(auth.factor_object(f) order by f.created_at, f.id))
        from (select * from auth.mfa_factors where user_id = u.id order by created_at, id limit 20) f
      having count(*) > 0), '{}')
$$;

alter function auth.identity_object(auth.identities) owner to supabase_auth_admin;
alter function auth.factor_object(auth.mfa_factors) owner to supabase_auth_admin;
alter function auth.user_object(auth.users) owner to supabase_auth_admin;
revoke execute on function auth.identity_object(auth.identities), auth.factor_object(auth.mfa_factors),
  auth.user_object(auth.users) from public;
